#if defined(__x86_64__)
__attribute__((target("avx512f"))) void faster() { asm volatile("vpaddd %%zmm0, %%zmm1, %%zmm2" ::: "xmm2"); }
#else
void faster() {}
#endif
