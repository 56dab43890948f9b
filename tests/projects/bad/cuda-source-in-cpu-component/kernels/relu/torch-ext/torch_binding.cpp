// Nothing is wrong here.
