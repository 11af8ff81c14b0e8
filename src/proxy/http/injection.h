// Credentials on their way out, and placeholders that are on the wrong way.
//
// The credential rule that covers a request says which binding is used; the value is looked up now,
// for this request. It goes in as header fields (whatever the client sent under such a name,
// however spelled, is removed), in place of placeholders, or as the certificate we come with. Plain
// HTTP gets a credential only from a rule that says "http". Every other binding's placeholder in
// the request means that something tries to carry it elsewhere: the request is denied.
#pragma once

#include <optional>

#include "proxy/http/request_judge.h"

namespace atl::proxy::http {

// Changes the plan's request, route and filters; an answer when the request must not go out.
Task<std::optional<Answer>> inject(Conversation& conversation, Plan& plan,
                                   const egress::RequestFacts& facts);

}  // namespace atl::proxy::http
