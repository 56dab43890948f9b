// This is not for the CPU.
