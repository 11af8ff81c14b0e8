// A guest agent that lies: stands in for atoll-guest and answers the daemon with hostile bytes.
//
// It takes connections on descriptor 3 as the real one does. A request that contains the text
// "lie-NAME" is answered by that lie; anything else (the daemon's greeting) is answered as a
// friendly agent would, so that the sandbox counts as started. Frame: u32 length, u8 kind, payload.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kPong = 50, kStarted = 51, kOutput = 52, kExit = 53, kProcess = 54, kFile = 55, kData = 56,
       kEnd = 57, kError = 59 };

static void put(int fd, const void* bytes, size_t size) {
  const char* next = bytes;
  while (size > 0) {
    const ssize_t wrote = send(fd, next, size, MSG_NOSIGNAL);
    if (wrote <= 0) _exit(0);
    next += wrote;
    size -= (size_t)wrote;
  }
}

static void frame(int fd, uint32_t size, uint8_t kind, const void* payload, size_t payload_size) {
  unsigned char header[5] = {size & 255, size >> 8 & 255, size >> 16 & 255, size >> 24, kind};
  put(fd, header, sizeof header);
  put(fd, payload, payload_size);
}

static int says(const char* text, size_t size, const char* lie) {
  return memmem(text, size, lie, strlen(lie)) != NULL;
}

static void answer(int fd) {
  static char request[65536], junk[65536];
  const ssize_t size = recv(fd, request, sizeof request, 0);
  if (size <= 0) return;
  memset(junk, 0xA5, sizeof junk);
  const uint32_t one[2] = {1, 0};
  if (says(request, size, "lie-huge-length")) {
    frame(fd, 0xFFFFFFFFu, kData, junk, sizeof junk);
  } else if (says(request, size, "lie-limit-plus-one")) {
    frame(fd, 256 * 1024 + 1, kOutput, junk, sizeof junk);
  } else if (says(request, size, "lie-unknown-kind")) {
    for (int kind = 0; kind < 256; ++kind) frame(fd, 4, (uint8_t)kind, junk, 4);
  } else if (says(request, size, "lie-empty-frames")) {
    for (int i = 0; i < 200000; ++i) frame(fd, 0, kOutput, junk, 0);
  } else if (says(request, size, "lie-truncated")) {
    frame(fd, 100, kFile, junk, 7);
  } else if (says(request, size, "lie-random")) {
    for (size_t i = 0; i < sizeof junk; ++i) junk[i] = (char)(i * 2654435761u >> 13);
    put(fd, junk, sizeof junk);
  } else if (says(request, size, "lie-endless-files")) {
    for (;;) frame(fd, 64, kFile, junk, 64);
  } else if (says(request, size, "lie-endless-output")) {
    frame(fd, 4, kStarted, one, 4);
    junk[0] = 1;
    memset(junk + 1, 0, 8);
    for (;;) frame(fd, sizeof junk, kOutput, junk, sizeof junk);
  } else if (says(request, size, "lie-started-twice")) {
    frame(fd, 4, kStarted, one, 4);
    frame(fd, 4, kStarted, one, 4);
    frame(fd, 1, kExit, junk, 1);
  } else if (says(request, size, "lie-bad-error")) {
    frame(fd, 200, kError, junk, 200);
  } else if (says(request, size, "lie-hang-up")) {
    return;
  } else if (says(request, size, "lie-one-byte-at-a-time")) {
    unsigned char header[5] = {4, 0, 0, 0, kStarted};
    for (int i = 0; i < 5; ++i) { put(fd, header + i, 1); usleep(20000); }
    for (int i = 0; i < 4; ++i) { put(fd, junk, 1); usleep(20000); }
  } else if (says(request, size, "lie-silent")) {
    while (recv(fd, junk, sizeof junk, 0) > 0) {}
  } else {
    frame(fd, 8, kPong, one, 8);
  }
}

int main(void) {
  signal(SIGCHLD, SIG_IGN);
  for (;;) {
    const int fd = accept(3, NULL, NULL);
    if (fd < 0) continue;
    if (fork() == 0) {
      close(3);
      answer(fd);
      shutdown(fd, SHUT_WR);
      _exit(0);
    }
    close(fd);
  }
}
