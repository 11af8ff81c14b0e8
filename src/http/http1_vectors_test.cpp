#include "http/http1_vectors.h"

#include "base/strings.h"

namespace atl::http {
namespace {

// A POST with these header lines (each with its CRLF) and what follows the head.
std::string post(std::string_view lines, std::string_view rest) {
  return concat("POST /v HTTP/1.1\r\nHost: x\r\n", lines, "\r\n", rest);
}
std::string get(std::string_view lines) {
  return concat("GET /v HTTP/1.1\r\n", lines, "\r\n");
}
std::string target(std::string_view text) {
  return concat("GET ", text, " HTTP/1.1\r\nHost: x\r\n\r\n");
}
std::string chunked(std::string_view rest) {
  return post("Transfer-Encoding: chunked\r\n", rest);
}
std::string host(std::string_view value) {
  return get(concat("Host: ", value, "\r\n"));
}

std::string many_fields(int count) {
  std::string lines = "Host: x\r\n";
  for (int i = 1; i < count; ++i) {
    lines += concat("X-", i, ": y\r\n");
  }
  return get(lines);
}

using Vectors = std::vector<RequestVector>;
void append(Vectors& all, Vectors more) {
  for (auto& vector : more) {
    all.push_back(std::move(vector));
  }
}

Vectors length_vectors() {
  return {
      {"CL and TE", post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
      {"TE and CL", post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n"), 400},
      {"CL and unknown TE", post("Content-Length: 3\r\nTransfer-Encoding: x\r\n", "abc"), 400},
      {"differing CLs", post("Content-Length: 3\r\nContent-Length: 4\r\n", "abc"), 400},
      {"equal CLs", post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), 400},
      {"equal CLs, other case", post("Content-Length: 3\r\ncontent-length: 3\r\n", "abc"), 400},
      {"CL list", post("Content-Length: 3, 3\r\n", "abc"), 400},
      {"CL with comma", post("Content-Length: 3,\r\n", "abc"), 400},
      {"CL plus", post("Content-Length: +3\r\n", "abc"), 400},
      {"CL minus", post("Content-Length: -3\r\n", "abc"), 400},
      {"CL hex", post("Content-Length: 0x3\r\n", "abc"), 400},
      {"CL empty", post("Content-Length: \r\n", "abc"), 400},
      {"CL with inner space", post("Content-Length: 1 2\r\n", "abc"), 400},
      {"CL with a letter", post("Content-Length: 3a\r\n", "abc"), 400},
      {"CL quoted", post("Content-Length: \"3\"\r\n", "abc"), 400},
      {"CL 2^64", post("Content-Length: 18446744073709551616\r\n", "abc"), 400},
      {"CL 2^64+3", post("Content-Length: 18446744073709551619\r\n", "abc"), 400},
      {"CL 2^63", post("Content-Length: 9223372036854775808\r\n", "abc"), 400},
      {"CL huge", post(concat("Content-Length: ", std::string(500, '9'), "\r\n"), "abc"), 400},
      {"CL with form feed", post("Content-Length: \f3\r\n", "abc"), 400},
  };
}

Vectors encoding_vectors() {
  const auto te = [](std::string_view value) {
    return post(concat("Transfer-Encoding: ", value, "\r\n"), "0\r\n\r\n");
  };
  return {
      {"TE xchunked", te("xchunked"), 501},
      {"TE chunked, identity", te("chunked, identity"), 501},
      {"TE identity, chunked", te("identity, chunked"), 501},
      {"TE gzip, chunked", te("gzip, chunked"), 501},
      {"TE identity", te("identity"), 501},
      {"TE empty", te(""), 501},
      {"TE chunked twice in a list", te("chunked, chunked"), 501},
      {"TE chunked with parameter", te("chunked;q=1"), 501},
      {"TE quoted", te("\"chunked\""), 501},
      {"TE with leading comma", te(", chunked"), 501},
      {"TE with vertical tab", te("\vchunked"), 400},
      {"two TE lines", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", ""),
       400},
      {"TE then TE identity",
       post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", ""), 400},
      {"TE identity then TE chunked",
       post("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", ""), 400},
      {"TE on HTTP/1.0",
       "POST /v HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"TE name with space", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), 400},
      {"TE folded", post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), 400},
  };
}

Vectors field_vectors() {
  return {
      {"space before colon", get("Host : x\r\n"), 400},
      {"tab before colon", get("Host\t: x\r\n"), 400},
      {"empty name", get("Host: x\r\n: y\r\n"), 400},
      {"no colon", get("Host: x\r\nnothing\r\n"), 400},
      {"bad name", get("Host: x\r\nA(b): y\r\n"), 400},
      {"8-bit name", get("Host: x\r\nX-\xC3\xA9: y\r\n"), 400},
      {"NUL in value", get(std::string{"Host: x\r\nA: b\0c\r\n", 17}), 400},
      {"NUL in name", get(std::string{"Host: x\r\nA\0: b\r\n", 16}), 400},
      {"CR in value", get("Host: x\r\nA: b\rc\r\n"), 400},
      {"LF in value", get("Host: x\r\nA: b\nc: d\r\n"), 400},
      {"DEL in value", get("Host: x\r\nA: b\x7F\r\n"), 400},
      {"escape in value", get("Host: x\r\nA: \x1B[2J\r\n"), 400},
      {"CR CR LF", get("Host: x\r\nA: b\r\r\n"), 400},
      {"bare LF line ends", "GET /v HTTP/1.1\nHost: x\n\n", 400},
      {"bare LF at the end", "GET /v HTTP/1.1\r\nHost: x\r\n\n", 400},
      {"bare CR line ends", "GET /v HTTP/1.1\rHost: x\r\r", 400},
      {"obs-fold", get("Host: x\r\nA: b\r\n c\r\n"), 400},
      {"obs-fold with tab", get("Host: x\r\nA: b\r\n\tc\r\n"), 400},
      {"first field starts with space", get(" A: b\r\nHost: x\r\n"), 400},
      {"blank line with space", "GET /v HTTP/1.1\r\nHost: x\r\n \r\n\r\n", 400},
      {"too many fields", many_fields(129), 431},
      {"too large head", get(concat("Host: x\r\nA: ", std::string(70000, 'a'), "\r\n")), 431},
      {"other expectation", post("Expect: 200-ok\r\nContent-Length: 0\r\n", ""), 417},
      {"two expectations",
       post("Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 0\r\n", ""), 417},
  };
}

Vectors host_vectors() {
  return {
      {"no Host", get("A: b\r\n"), 400},
      {"two Hosts", get("Host: x\r\nHost: y\r\n"), 400},
      {"two equal Hosts", get("Host: x\r\nHost: x\r\n"), 400},
      {"two Hosts on 1.0", "GET /v HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", 400},
      {"empty Host", host(""), 400},
      {"Host with userinfo", host("a@x"), 400},
      {"Host with a path", host("x/y"), 400},
      {"Host with a space", host("x y"), 400},
      {"Host list", host("x, y"), 400},
      {"Host with a scheme", host("http://x"), 400},
      {"Host with a bad port", host("x:y"), 400},
      {"Host with an empty port", host("x:"), 400},
      {"Host with a large port", host("x:65536"), 400},
      {"Host with two ports", host("x:1:2"), 400},
      {"Host with percent", host("x%41"), 400},
      {"Host open bracket", host("[::1"), 400},
      {"Host empty brackets", host("[]"), 400},
      {"Host junk after bracket", host("[::1]x"), 400},
      {"Host 8-bit", host("x\xFF"), 400},
  };
}

Vectors line_vectors() {
  return {
      {"double space before target", "GET  /v HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"double space before version", "GET /v  HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"tab in request line", "GET\t/v HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"space after version", "GET /v HTTP/1.1 \r\nHost: x\r\n\r\n", 400},
      {"leading CRLF", "\r\nGET /v HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"leading space", " GET /v HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"HTTP/2.0", "GET /v HTTP/2.0\r\nHost: x\r\n\r\n", 505},
      {"HTTP/1.2", "GET /v HTTP/1.2\r\nHost: x\r\n\r\n", 505},
      {"HTTP/0.9 with version", "GET /v HTTP/0.9\r\nHost: x\r\n\r\n", 505},
      {"HTTP/0.9", "GET /v\r\n\r\n", 400},
      {"HTTP/1", "GET /v HTTP/1\r\nHost: x\r\n\r\n", 400},
      {"HTTP/1.10", "GET /v HTTP/1.10\r\nHost: x\r\n\r\n", 400},
      {"lower-case version", "GET /v http/1.1\r\nHost: x\r\n\r\n", 400},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"lower-case method", "get /v HTTP/1.1\r\nHost: x\r\n\r\n", 501},
      {"unknown method", "BREW /v HTTP/1.1\r\nHost: x\r\n\r\n", 501},
      {"TRACE", "TRACE /v HTTP/1.1\r\nHost: x\r\n\r\n", 501},
      {"CONNECT", "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 501},
      {"method with bad character", "G(T /v HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"no method", "/v HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"absolute form", target("http://x/v"), 400},
      {"authority form", target("x:80"), 400},
      {"asterisk for GET", target("*"), 400},
      {"fragment", target("/v#f"), 400},
      {"backslash", target("/v\\..\\w"), 400},
      {"quote", target("/v\"w"), 400},
      {"8-bit target", target("/v\xC3\xA9"), 400},
      {"control in target", target("/v\x01"), 400},
      {"DEL in target", target("/v\x7F"), 400},
      {"NUL in target", std::string{"GET /v\0 HTTP/1.1\r\nHost: x\r\n\r\n", 29}, 400},
      {"long request line", target(concat("/", std::string(20000, 'a'))), 414},
      {"TLS hello", std::string{"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03", 11}, 400},
  };
}

Vectors chunk_vectors() {
  const auto bad = [](std::string_view name, std::string_view rest) {
    return RequestVector{name, chunked(rest), 400, true};
  };
  return {
      bad("chunk size overflow", "10000000000000003\r\nabc\r\n0\r\n\r\n"),
      bad("chunk size 2^63", "8000000000000000\r\nabc\r\n0\r\n\r\n"),
      bad("chunk size many zeros", "00000000000000003\r\nabc\r\n0\r\n\r\n"),
      bad("chunk size negative", "-3\r\nabc\r\n0\r\n\r\n"),
      bad("chunk size plus", "+3\r\nabc\r\n0\r\n\r\n"),
      bad("chunk size 0x", "0x3\r\nabc\r\n0\r\n\r\n"),
      bad("chunk size with space", "3 \r\nabc\r\n0\r\n\r\n"),
      bad("chunk size with space and extension", "3 ;a\r\nabc\r\n0\r\n\r\n"),
      bad("chunk size with leading space", " 3\r\nabc\r\n0\r\n\r\n"),
      bad("chunk size empty", "\r\nabc\r\n0\r\n\r\n"),
      bad("chunk size not hex", "g\r\nabc\r\n0\r\n\r\n"),
      bad("chunk size line with bare LF", "3\nabc\r\n0\r\n\r\n"),
      bad("chunk size line with bare CR", "3\rabc\r\n0\r\n\r\n"),
      bad("chunk extension with bare LF", "3;a\nabc\r\n0\r\n\r\n"),
      bad("chunk extension with bare CR", "3;a\rb\r\nabc\r\n0\r\n\r\n"),
      bad("chunk extension with 8-bit", "3;\xFF\r\nabc\r\n0\r\n\r\n"),
      {"chunk extension huge",
       chunked(concat("3;", std::string(20000, 'a'), "\r\nabc\r\n0\r\n\r\n")), 400, true},
      bad("no CRLF after chunk data", "3\r\nabc0\r\n\r\n"),
      bad("LF after chunk data", "3\r\nabc\n0\r\n\r\n"),
      bad("chunk data too long", "3\r\nabcd\r\n0\r\n\r\n"),
      bad("last chunk ends with LF", "3\r\nabc\r\n0\n\n"),
      bad("trailer Content-Length", "0\r\nContent-Length: 5\r\n\r\n"),
      bad("trailer Transfer-Encoding", "0\r\ntransfer-encoding: chunked\r\n\r\n"),
      bad("trailer Host", "0\r\nHost: y\r\n\r\n"),
      bad("trailer Authorization", "0\r\nAuthorization: y\r\n\r\n"),
      bad("trailer with space before colon", "0\r\nA : y\r\n\r\n"),
      bad("trailer folded", "0\r\nA: y\r\n z\r\n\r\n"),
      bad("trailer with bare LF", "0\r\nA: y\n\r\n"),
      bad("trailer with bare CR", "0\r\nA: y\rz\r\n\r\n"),
      bad("trailer without colon", "0\r\nGET /next HTTP/1.1\r\n\r\n"),
      {"trailer huge", chunked(concat("0\r\nA: ", std::string(20000, 'a'), "\r\n\r\n")), 400, true},
  };
}

Vectors accepted_vectors() {
  return {
      {"plain GET", get("Host: x\r\n")},
      {"POST with CL", post("Content-Length: 3\r\n", "abc"), 0, false, "abc"},
      {"POST with CL and leading zeros", post("Content-Length: 003\r\n", "abc"), 0, false, "abc"},
      {"POST with CL 0", post("Content-Length: 0\r\n", "")},
      {"POST without body", post("", "")},
      {"GET with a body", get("Host: x\r\nContent-Length: 3\r\n") + "abc", 0, false, "abc"},
      {"chunked", chunked("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), 0, false, "abcde"},
      {"chunked, upper-case",
       post("Transfer-Encoding: Chunked\r\n", "A\r\n0123456789\r\n0\r\n\r\n"), 0, false,
       "0123456789"},
      {"TE with blanks around", post("Transfer-Encoding: \t chunked \t\r\n", "1\r\na\r\n0\r\n\r\n"),
       0, false, "a"},
      {"chunked, empty", chunked("0\r\n\r\n")},
      {"chunked with extension", chunked("3;a=b;c=\"d e\"\r\nabc\r\n0;x\r\n\r\n"), 0, false, "abc"},
      {"chunked with trailer", chunked("3\r\nabc\r\n0\r\nX-Sum: 1\r\nY:2\r\n\r\n"), 0, false,
       "abc"},
      {"chunked with zeros", chunked("0000000000000003\r\nabc\r\n000\r\n\r\n"), 0, false, "abc"},
      {"chunk that looks like a request", chunked("11\r\nGET /n HTTP/1.1\r\n\r\n0\r\n\r\n"), 0,
       false, "GET /n HTTP/1.1\r\n"},
      {"blanks around a value", get("Host:\t x \t\r\nA:\r\n")},
      {"8-bit value", get("Host: x\r\nA: \xC3\xA9\r\n")},
      {"Host with port", host("example.org:8080")},
      {"Host IPv4", host("127.0.0.1:1")},
      {"Host IPv6", host("[::1]:8080")},
      {"Host with underscore", host("a_b")},
      {"OPTIONS asterisk", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"query with braces", target("/v?a={b}|c^d`e")},
      {"double slash", target("//v/../w")},
      {"most fields", many_fields(128)},
      {"Upgrade ignored", get("Host: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n")},
      {"expect continue", post("Expect: 100-Continue\r\nContent-Length: 3\r\n", "abc"), 0, false,
       "abc"},
      {"connection close", get("Host: x\r\nConnection: close\r\n"), 0, false, "", true},
      {"connection close in a list", get("Host: x\r\nConnection: foo, Close\r\n"), 0, false, "",
       true},
      {"HTTP/1.0", "GET /v HTTP/1.0\r\n\r\n", 0, false, "", true},
      {"HTTP/1.0 with CL", "POST /v HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", 0, false, "abc",
       true},
      {"HTTP/1.0 keep-alive", "GET /v HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 0, false, "",
       true},
  };
}

}  // namespace

std::vector<RequestVector> request_vectors() {
  Vectors all;
  append(all, length_vectors());
  append(all, encoding_vectors());
  append(all, field_vectors());
  append(all, host_vectors());
  append(all, line_vectors());
  append(all, chunk_vectors());
  append(all, accepted_vectors());
  return all;
}

std::vector<ResponseVector> response_vectors() {
  const auto answer = [](std::string_view lines, std::string_view rest) {
    return concat("HTTP/1.1 200 OK\r\n", lines, "\r\n", rest);
  };
  return {
      {"CL and TE", answer("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")},
      {"differing CLs", answer("Content-Length: 3\r\nContent-Length: 4\r\n", "abc")},
      {"equal CLs", answer("Content-Length: 3\r\nContent-Length: 3\r\n", "abc")},
      {"CL list", answer("Content-Length: 3, 3\r\n", "abc")},
      {"CL plus", answer("Content-Length: +3\r\n", "abc")},
      {"CL 2^64", answer("Content-Length: 18446744073709551616\r\n", "abc")},
      {"TE gzip", answer("Transfer-Encoding: gzip\r\n", "abc")},
      {"TE gzip, chunked", answer("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n")},
      {"two TEs", answer("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "")},
      {"TE on 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"obs-fold", answer("A: b\r\n c\r\n", "")},
      {"bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
      {"NUL in value", answer(std::string{"A: b\0c\r\n", 8}, "")},
      {"space before colon", answer("A : b\r\n", "")},
      {"HTTP/2.0", "HTTP/2.0 200 OK\r\n\r\n"},
      {"status of two digits", "HTTP/1.1 20 OK\r\n\r\n"},
      {"status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"},
      {"status 999", "HTTP/1.1 999 OK\r\n\r\n"},
      {"switching protocols", "HTTP/1.1 101 OK\r\n\r\n"},
      {"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n"},
      {"bad chunk", answer("Transfer-Encoding: chunked\r\n", "3 \r\nabc\r\n0\r\n\r\n")},
      {"body cut", answer("Content-Length: 5\r\n", "abc")},
      {"chunks cut", answer("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n")},
      {"head cut", "HTTP/1.1 200 OK\r\nA: b\r\n"},
      {"nothing", ""},
      {"CL", answer("Content-Length: 3\r\n", "abc"), true, "abc"},
      {"chunked", answer("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"), true, "abc"},
      {"until close", answer("", "abc"), true, "abc"},
      {"until close on 1.0", "HTTP/1.0 200 OK\r\n\r\nabc", true, "abc"},
      {"no content", "HTTP/1.1 204 No Content\r\n\r\n", true},
      {"interim first", concat("HTTP/1.1 102 Wait\r\n\r\n", answer("Content-Length: 1\r\n", "a")),
       true, "a"},
  };
}

}  // namespace atl::http
