int code() { return 0; }

extern "C" void* PyInit_of_something_else() { return nullptr; }
