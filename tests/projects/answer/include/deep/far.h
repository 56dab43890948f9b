#define FAR 100
