"""Workers: several server processes behind one port, and the process that supervises them."""
