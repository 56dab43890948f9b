#pragma once

// Each returns 1 when the part of the runtime that it is named after works.
int exceptions();
int threads();
int shared_pointers();
int files();
int number_texts();
int streams();
int thread_locals();
int openmp();
int timed_waits();
int mathematics();
int parsing();
