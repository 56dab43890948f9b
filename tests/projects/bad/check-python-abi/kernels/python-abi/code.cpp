// Declared here as CPython's headers have them, which leave them out for Python 3.9.
extern "C" void PyBuffer_Release(void*);
extern "C" int _PyLong_Sign(void*);

int code() {
  static int never = 0;
  if (never != 0) PyBuffer_Release(&never);
  return never != 0 ? _PyLong_Sign(&never) : 0;
}
