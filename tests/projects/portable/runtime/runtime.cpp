#include "runtime.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

int exceptions() {
  try {
    std::vector<int>().at(1);
  } catch (const std::out_of_range&) {
    try {
      throw std::system_error(std::make_error_code(std::errc::timed_out), "late");
    } catch (const std::runtime_error& error) {
      return std::string(error.what()).find("late") == 0;
    }
  }
  return 0;
}

int threads() {
  std::vector<int> done(4);
  std::vector<std::thread> workers;
  for (int& mine : done) workers.emplace_back([&mine] { mine = 1; });
  for (auto& worker : workers) worker.join();
  return std::accumulate(done.begin(), done.end(), 0) == 4;
}

int shared_pointers() {
  auto first = std::make_shared<std::string>("shared");
  std::weak_ptr<std::string> watcher = first;
  auto second = first;
  first.reset();
  const bool alive = !watcher.expired() && second.use_count() == 1;
  second.reset();
  return alive && watcher.expired();
}

int files() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("kernelyard-" + std::to_string(std::rand()));
  fs::create_directories(folder / "a" / "b");
  std::ofstream(folder / "a" / "file") << "12345";
  const bool right = fs::file_size(folder / "a" / "file") == 5 && fs::is_directory(folder / "a" / "b");
  bool refused = false;
  try {
    fs::file_size(folder / "nothing");
  } catch (const fs::filesystem_error& error) {
    refused = error.code() == std::errc::no_such_file_or_directory;
  }
  return right && refused && fs::remove_all(folder) == 4;
}

int number_texts() {
  char text[64];
  const auto written = std::to_chars(text, text + sizeof text, 0.1);
  double value = 0;
  std::from_chars(text, written.ptr, value);
  return std::string(text, written.ptr) == "0.1" && value == 0.1;
}

int streams() {
  std::ostringstream out;
  out << 1.5 << ' ' << std::hex << 255 << ' ' << std::boolalpha << true;
  std::clog << std::flush;
  return out.str() == "1.5 ff true";
}

namespace {
thread_local std::string mine = "fresh";
}

int thread_locals() {
  mine = "changed";
  std::string seen;
  std::thread([&] { seen = mine; }).join();
  return seen == "fresh" && mine == "changed";
}

int openmp() {
  int sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 1000; ++i) sum += i;
  return sum == 499500;
}

int timed_waits() {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock<std::mutex> lock(mutex);
  const auto start = std::chrono::steady_clock::now();
  const auto status = condition.wait_until(lock, start + std::chrono::milliseconds(20));
  std::timed_mutex timed;
  timed.lock();
  bool locked = true;
  std::thread([&] { locked = timed.try_lock_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(5)); }).join();
  timed.unlock();
  return status == std::cv_status::timeout && !locked &&
         std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(20);
}

int mathematics() {
  volatile double one = 1, half = 0.5;
  volatile float two = 2;
  return std::exp(one - 1) == 1 && std::pow(half, 2.0) == 0.25 && std::log(one) == 0 && std::exp2(two) == 4 &&
         std::fmod(5.5, 2.0) == 1.5;
}

int parsing() {
  int value = 0;
  return std::stol("42") == 42 && std::stoull(L"43") == 43 && std::sscanf("44", "%d", &value) == 1 && value == 44;
}
