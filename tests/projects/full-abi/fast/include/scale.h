#pragma once

template <typename T>
T scale(T x) {
  return x * SCALE;
}
