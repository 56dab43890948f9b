"""CUDA without a GPU: a stand-in for the driver, processes that use it, and what it recorded."""
