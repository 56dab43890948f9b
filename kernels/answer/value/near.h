#define NEAR 10
