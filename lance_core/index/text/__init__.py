"""Full text indices (INVERTED): documents that contain words, with their scores.

parameters     how an index divides texts into terms, and its options
analyzer       texts -> terms; letters, stop_words, folding: tables that it needs
query          queries as plain data, and their JSON form
segment        one opened segment; partition: documents, terms and posting lists of a part of it;
               dictionary: terms and their numbers; old_partition: files of releases before 0.30
search         queries -> rows and scores, in the segments of one index
scores         statistics of a collection of documents, and the weights of terms
build          texts and row keys -> files of a segment
arrays         NumPy arrays over blocks of kernels
"""
