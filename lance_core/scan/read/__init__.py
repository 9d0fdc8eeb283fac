"""Reading: the columns of one fragment, by row ranges or by single rows."""
