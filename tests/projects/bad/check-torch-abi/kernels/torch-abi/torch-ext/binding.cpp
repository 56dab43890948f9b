#include "registration.h"

int code();
static const int called = code();

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
