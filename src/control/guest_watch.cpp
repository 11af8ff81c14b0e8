// Watching and searching in a guest: answers without an end that can be foreseen.
#include "control/guest_client.h"
#include "control/limits.h"

namespace atl::control {

using guest::Kind;

Task<guest::FileEvent> FileWatch::next() {
  CO_TRY(const auto payload, co_await channel_->expect(Kind::kFileEvent, Duration::zero()));
  co_return from_guest(guest::decode_file_event(payload));
}

Task<std::optional<guest::Match>> SearchReader::next() {
  CO_TRY(const Frame frame, co_await channel_->receive(Duration::zero()));
  if (frame.kind == Kind::kEnd) {
    CO_TRY(end_, from_guest(guest::decode_search_end(frame.payload)));
    co_return std::optional<guest::Match>{};
  }
  if (frame.kind != Kind::kMatch) {
    co_return guest_broke_protocol("neither a match nor the end of a search");
  }
  CO_TRY(auto match, from_guest(guest::decode_match(frame.payload)));
  co_return std::optional{std::move(match)};
}

Task<std::unique_ptr<FileWatch>> GuestClient::watch(guest::WatchRequest request) const {
  CO_TRY_DO(guest::validate_user_path(request.path));
  CO_TRY(auto channel, co_await start(Kind::kWatch, guest::encode(request)));
  CO_TRY(const auto payload, co_await channel->expect(Kind::kWatching, kGuestAnswerTimeout));
  if (!payload.empty()) {
    co_return guest_broke_protocol("an acknowledgement with content");
  }
  co_return std::make_unique<FileWatch>(std::move(channel));
}

Task<std::unique_ptr<SearchReader>> GuestClient::search(guest::SearchRequest request) const {
  CO_TRY_DO(guest::validate(request));
  CO_TRY(auto channel, co_await start(Kind::kSearch, guest::encode(request)));
  co_return std::make_unique<SearchReader>(std::move(channel));
}

}  // namespace atl::control
