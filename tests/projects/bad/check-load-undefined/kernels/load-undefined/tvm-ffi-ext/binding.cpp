// Declared, called, and defined in a source that build.toml does not list.
int forgotten();

extern "C" int __tvm_ffi_answer(void*, const void*, int, void*) { return forgotten(); }
