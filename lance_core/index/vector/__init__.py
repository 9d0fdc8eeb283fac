"""Vector indices: files that find the vectors nearest to a query without reading all vectors.

segment_search.py    the queries of a search to one segment, and what the segment answers
opened.py            a segment that answers
batch_search.py      one search of a segment for all queries
sums.py              distances that do not depend on how many queries there are
model.py             the description of a segment in its files
partitions.py        rows and centroids of the partitions
probes.py            how many partitions a search reads
codes/               codes of the vectors, and how they are compared with a query
graphs.py            graphs of partitions
layouts.py           codes that are not stored row after row
statistics.py        facts about a segment
build/               building of segments
"""
