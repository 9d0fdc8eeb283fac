"""What files say about the values of their pages, in one form whatever the version."""
