"""An interpreter of Tile IR text in numpy, for tests: the arithmetic of a compiled tile program, run without a GPU."""
