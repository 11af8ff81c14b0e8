// One client connection: bytes to frames and back, with back-pressure both ways.
//
// Input is read only while the owner wants it (hold_input stops reading, so the kernel makes the
// client wait). Output is a buffer that the owner fills only while wants_output() says so; when it
// has drained, on_drained() asks for more. The peer can leave in two ways: it stops sending (end
// of input; we go on answering) or it is gone (nobody reads our answer; what it sent before is
// still delivered). close() and finish() only mark: the owner sweeps closed connections.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "guest/loop.h"
#include "guest/wire.h"

namespace atl::guest {

class Process;

class Connection {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // `payload` is valid during the call.
    virtual void on_frame(Connection& connection, Kind kind, std::string_view payload) = 0;
    virtual void on_drained(Connection& connection) = 0;
    // Nobody reads answers any more. Unless the owner calls close(), input goes on to its end.
    virtual void on_peer_gone(Connection& connection) = 0;
    // The connection is closed(): forget it after this batch of events.
    virtual void on_closed(Connection& connection) = 0;
  };

  Connection(Owner& owner, Loop& loop, Fd socket, std::uint64_t serial);
  Result<> start();
  // Reads what has come already, without waiting for an event.
  void try_input() { on_events(EPOLLIN); }
  // What is sent in between goes out at once, in as few pieces as possible.
  void cork() { corked_ = true; }
  void uncork();

  void send(Kind kind, std::string_view payload = {});
  void send_output(OutputHeader header, std::string_view bytes);
  void send_error(const Error& error);  // and finish()
  void finish();                        // closes when everything is sent
  void close();
  void hold_input(bool hold);

  bool wants_output() const;
  bool closed() const { return closed_; }
  bool finishing() const { return finishing_; }
  bool peer_gone() const { return peer_gone_; }
  std::uint64_t serial() const { return serial_; }

  // During on_frame: what followed the current frame. For handing the connection to a worker.
  std::string_view input_after_frame() const;
  int socket() const { return socket_.get(); }
  // The last descriptor that came with the input; empty: none.
  Fd take_descriptor() { return std::move(descriptor_); }

  // What the owner uses this connection for. `process` is borrowed, set while attached.
  bool requested = false;
  bool listing = false;
  std::uint64_t listed_serial = 0;
  Process* process = nullptr;

 private:
  void on_events(std::uint32_t events);
  void read_input();
  ssize_t receive(std::span<char> buffer);
  void parse_input();
  void flush();
  void update_interest();

  Owner& owner_;
  Fd socket_;
  Fd descriptor_;
  Watch watch_;
  const std::uint64_t serial_;
  std::string input_;
  std::size_t parsed_bytes_ = 0;  // of input_
  std::string output_;
  std::size_t sent_bytes_ = 0;  // of output_
  bool parsing_ = false;
  bool held_ = false;
  bool input_ended_ = false;
  bool peer_gone_ = false;
  bool finishing_ = false;
  bool closed_ = false;
  bool corked_ = false;
};

}  // namespace atl::guest
