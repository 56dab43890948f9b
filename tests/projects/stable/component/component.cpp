int component() { return 1; }
