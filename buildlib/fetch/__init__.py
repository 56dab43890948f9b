"""How toolchains come to this machine: packages by pip, tags by git."""
