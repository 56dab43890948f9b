void fast() {
#if defined(__x86_64__)
  asm volatile("vpaddd %%ymm0, %%ymm1, %%ymm2" ::: "xmm2");
#endif
}
