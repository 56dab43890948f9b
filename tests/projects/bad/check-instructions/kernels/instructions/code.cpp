void fast();
void faster();

// Loading the library runs this; none of the instructions may be, as this machine need not have them.
int code() {
  static volatile bool never = false;
  if (never) {
    fast();
    faster();
#if defined(__x86_64__)
    asm volatile("vpaddd %%ymm0, %%ymm1, %%ymm2" ::: "xmm2");
#endif
  }
  return 0;
}
