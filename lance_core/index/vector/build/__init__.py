"""Building of segments of vector indices.

options.py     parameters of a build, with their defaults
parameters.py  parameters with which a segment was built
vectors.py     batches of a column as matrices of usable vectors
kmeans.py      clusters of a sample
training.py    centroids, codebooks and bounds from a sample
encoders.py    codes of vectors, and what the file says about them
spilled.py     rows that arrive in any order, by partition, in bounded memory
graphs.py      graphs of partitions, and their rows in the file
build.py       the files of a segment
kinds.py       the kinds of vector indices that can be built
"""
