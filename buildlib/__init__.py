"""Kernelyard's builder: from `kernels/*/build.toml` to checked, loadable artifacts.

The stages are the modules: discover, config (load), matrix, plan, render, build, check. README.md says what flows
between them.
"""
