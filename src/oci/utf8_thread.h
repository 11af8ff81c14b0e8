// Names in archives are UTF-8. libarchive converts them by the locale of the thread, so it gets one
// for the time of a call; the process keeps its own.
#pragma once

#include <locale.h>

namespace atl::oci {

class Utf8Thread {
 public:
  Utf8Thread() : previous_(::uselocale(utf8())) {}
  ~Utf8Thread() { ::uselocale(previous_); }
  Utf8Thread(const Utf8Thread&) = delete;
  Utf8Thread& operator=(const Utf8Thread&) = delete;

 private:
  static locale_t utf8() {
    static const locale_t kLocale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return kLocale;  // null leaves the thread's locale as it is
  }
  locale_t previous_;
};

}  // namespace atl::oci
