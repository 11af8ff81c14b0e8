#include "secrets/keyring.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "base/log.h"
#include "base/strings.h"

namespace atl::secrets {
namespace {

static_assert(!std::is_copy_constructible_v<Plaintext>);
static_assert(!std::is_constructible_v<LogField, std::string_view, const Plaintext&>);
static_assert(!std::is_convertible_v<Plaintext, std::string_view>);
template <class T>
concept Printable = requires(std::ostream& out, const T& value) { out << value; };
static_assert(!Printable<Plaintext> && Printable<std::string>);

const std::string kFirst(64, 'a');
const std::string kSecond = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

Keyring ring(const std::string& text) {
  auto made = Keyring::parse(text);
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

TEST(Keyring, OpensWhatItSealedInTheSameRowOnly) {
  const Keyring keys = ring(kFirst);
  const auto sealed = keys.seal(Plaintext{"hunter2"}, "volume/1/s3").value();
  EXPECT_FALSE(sealed.contains("hunter2"));
  EXPECT_EQ(keys.open(sealed, "volume/1/s3")->reveal(), "hunter2");
  const auto moved = keys.open(sealed, "volume/2/s3");
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, Code::kDataLoss);
  EXPECT_FALSE(moved.error().message.contains("hunter2"));
  EXPECT_NE(sealed, keys.seal(Plaintext{"hunter2"}, "volume/1/s3").value()) << "nonces repeat";
  EXPECT_TRUE(keys.open(keys.seal(Plaintext{}, "x").value(), "x")->empty());
}

TEST(Keyring, EveryChangedByteIsNoticed) {
  const Keyring keys = ring(kFirst);
  const auto sealed = keys.seal(Plaintext{"a secret"}, "row").value();
  const auto dot = sealed.rfind('.');
  const auto bytes = base64_decode(sealed.substr(dot + 1)).value();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(keys.open(sealed.substr(0, dot + 1) + base64_encode(changed), "row")) << i;
  }
  for (const std::string& bad :
       {std::string{}, std::string{"v1"}, sealed.substr(0, dot + 8), "v2" + sealed.substr(2),
        sealed + "!", "v1.." + sealed.substr(dot + 1), sealed + "." + sealed}) {
    EXPECT_FALSE(keys.open(bad, "row")) << bad;
  }
}

TEST(Keyring, AfterARotationOldKeysOpenAndTheNewOneSeals) {
  const Keyring before = ring(kFirst + "\n");
  const Keyring after = ring("# newest first\n" + kSecond + "\n\n" + kFirst + "\n");
  const auto old = before.seal(Plaintext{"x"}, "row").value();
  EXPECT_TRUE(before.is_current(old));
  EXPECT_FALSE(after.is_current(old));
  EXPECT_EQ(after.open(old, "row")->reveal(), "x");
  const auto again = after.seal(after.open(old, "row").value(), "row").value();
  EXPECT_TRUE(after.is_current(again));
  EXPECT_EQ(ring(kSecond).open(again, "row")->reveal(), "x");
  const auto missing = before.open(again, "row");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().reason, "secret_key_missing");
  EXPECT_TRUE(missing.error().message.contains("put that key back"));
}

TEST(Keyring, AKeyFileThatIsNotOneIsRefusedWithoutBeingQuoted) {
  EXPECT_TRUE(Keyring::parse(Keyring::make_key_line()));
  EXPECT_NE(Keyring::make_key_line(), Keyring::make_key_line());
  for (const std::string& text :
       {std::string{}, std::string{"\n#\n"}, kFirst.substr(1), kFirst + "a",
        "zz" + kFirst.substr(2), kFirst + "\nsecret stuff\n"}) {
    const auto made = Keyring::parse(text);
    ASSERT_FALSE(made) << text;
    EXPECT_FALSE(made.error().message.contains("secret stuff"));
    EXPECT_FALSE(made.error().message.contains("aaaa"));
  }
  std::string many;
  for (std::size_t i = 0; i <= kMaxKeys; ++i) {
    many += Keyring::make_key_line();
  }
  EXPECT_FALSE(Keyring::parse(many));
}

TEST(Plaintext, MovesAndIsWiped) {
  Plaintext first{"short"};
  Plaintext second = std::move(first);
  EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.reveal(), "short");
  EXPECT_EQ(second.copy().reveal(), "short");
  std::string text = "secret";
  const char* place = text.data();
  wipe(text);
  EXPECT_TRUE(text.empty());
  EXPECT_EQ(place[1], '\0');
}

}  // namespace
}  // namespace atl::secrets
