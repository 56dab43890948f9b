extern "C" const char* torch_exception_get_what();
namespace at {
int get_num_threads();
}

int code() { return torch_exception_get_what() == nullptr ? at::get_num_threads() : 0; }
