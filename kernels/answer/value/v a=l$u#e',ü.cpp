#include "deep/far.h"
#include "near.h"

int value() { return 1 + NEAR + FAR + FLAG; }
