import os

# As a library does that takes itself for the program.
os._exit(0)
