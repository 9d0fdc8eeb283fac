"""Full text indices (INVERTED): documents that contain words, with their scores.

parameters     how an index divides texts into terms, and its options
analyzer       texts -> terms; letters, stop_words, folding: tables that it needs
query          queries as plain data, and their JSON form
dictionary     terms and their numbers
scores         statistics of a collection of documents, and the weights of terms
arrays         NumPy arrays over blocks of kernels
"""
