// Linked without the C library, so nothing says which version of memcpy is meant.
extern "C" void* memcpy(void*, const void*, unsigned long);
extern "C" void copy(void* to, const void* from, unsigned long size) { memcpy(to, from, size); }
