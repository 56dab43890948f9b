// Uses the extension's name in a way that no macro of registration.h covers.
#define STRING_(X) #X
#define STRING(X) STRING_(X)

extern "C" const char* spelled_name() { return STRING(TORCH_EXTENSION_NAME); }
