extern "C" int f() { return 0; }
