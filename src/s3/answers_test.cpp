#include "s3/answers.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "s3/xml.h"

namespace atl::s3 {
namespace {

TEST(Xml, ReadsATreeAndRefusesWhatCanGrow) {
  const auto root =
      parse_xml("<?xml version=\"1.0\"?><x:a xmlns:x=\"u\"><b>1&amp;&#50;</b><c/></x:a>");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->name, "a");
  EXPECT_EQ(root->text_of("b"), "1&2");
  EXPECT_EQ(root->text_of("nothing"), "");
  EXPECT_NE(root->find("c"), nullptr);
  std::string deep;
  for (std::size_t i = 0; i < kMaxXmlDepth + 2; ++i) {
    deep += "<a>";
  }
  for (std::size_t i = 0; i < kMaxXmlDepth + 2; ++i) {
    deep += "</a>";
  }
  std::string wide = "<a>";
  for (std::size_t i = 0; i < kMaxXmlElements; ++i) {
    wide += "<b/>";
  }
  for (const std::string& bad :
       {std::string{}, std::string{"text"}, std::string{"<a>"}, std::string{"<a></b>"},
        std::string{"<a/><b/>"}, std::string{"{\"json\": true}"}, deep, wide + "</a>",
        std::string{"<!DOCTYPE a [<!ENTITY e \"xx\">]><a>&e;</a>"},
        std::string{"<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>"},
        concat("<a>", std::string(kMaxXmlBytes, 'x'), "</a>")}) {
    EXPECT_FALSE(parse_xml(bad)) << bad.substr(0, 80);
  }
}

TEST(Xml, WritesWhatItCanReadBack) {
  for (const std::string text : {"a<b>&\"'\n\t", "ü ]]> x", ""}) {
    const auto read = parse_xml(concat("<k>", xml_text(text).value(), "</k>"));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->text, text);
  }
  EXPECT_FALSE(xml_text("\x01"));
  EXPECT_FALSE(xml_text("\xFF"));
}

TEST(Listing, DecodesEncodedNamesAndContinues) {
  const auto listing = parse_listing(
      "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>t+1</NextContinuationToken>"
      "<Contents><Key>a%2Bb+c/%C3%BC</Key><Size>12</Size><ETag>&quot;e&quot;</ETag>"
      "<LastModified>2026-11-15T08:22:51.000Z</LastModified></Contents>"
      "<CommonPrefixes><Prefix>d%20e/</Prefix></CommonPrefixes></ListBucketResult>");
  ASSERT_TRUE(listing) << listing.error().message;
  ASSERT_EQ(listing->objects.size(), 1U);
  EXPECT_EQ(listing->objects[0].key, "a+b c/ü");
  EXPECT_EQ(listing->objects[0].size, 12U);
  EXPECT_EQ(listing->objects[0].etag, "e");
  EXPECT_EQ(format_unix_millis(listing->objects[0].modified), "2026-11-15T08:22:51.000Z");
  EXPECT_EQ(listing->prefixes, std::vector<std::string>{"d e/"});
  EXPECT_EQ(listing->next, "t+1");
  const auto plain = parse_listing(
      "<ListBucketResult><Contents><Key>a%2Bb</Key><Size>1</Size></Contents></ListBucketResult>");
  EXPECT_EQ(plain->objects[0].key, "a%2Bb");
  EXPECT_EQ(plain->next, "");
  for (const char* bad :
       {"<Error/>", "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%zz</Key><Size>1</Size>"
        "</Contents></ListBucketResult>"}) {
    EXPECT_FALSE(parse_listing(bad)) << bad;
  }
}

TEST(Errors, NameTheCodeAndQuoteNothing) {
  const auto error = error_of_answer(
      403, {},
      "<Error><Code>SignatureDoesNotMatch</Code><Message>bad</Message>"
      "<AWSAccessKeyId>AKIA123</AWSAccessKeyId><StringToSign>s3cr3t</StringToSign></Error>");
  EXPECT_EQ(error.code, Code::kPermissionDenied);
  EXPECT_EQ(error.reason, "SignatureDoesNotMatch");
  EXPECT_TRUE(error.message.contains("SignatureDoesNotMatch"));
  EXPECT_FALSE(error.message.contains("AKIA123"));
  EXPECT_FALSE(error.message.contains("s3cr3t"));
  EXPECT_EQ(error_of_answer(404, {}, "").code, Code::kNotFound);
  EXPECT_EQ(error_of_answer(503, {}, "<html>").code, Code::kUnavailable);
  EXPECT_EQ(error_of_answer(404, {}, "<Error><Code>NoSuchBucket</Code></Error>").reason,
            "NoSuchBucket");
  EXPECT_EQ(error_of_answer(400, {}, "<Error><Code>Odd\r\nX: y</Code></Error>").reason, "OddXy");
  const auto moved = error_of_answer(301, {{"x-amz-bucket-region", "eu-west-1"}},
                                     "<Error><Code>PermanentRedirect</Code></Error>");
  EXPECT_TRUE(moved.message.contains("eu-west-1"));
  EXPECT_TRUE(error_inside("<Error><Code>InternalError</Code></Error>"));
  EXPECT_FALSE(error_inside("<CopyObjectResult/>"));
}

TEST(Headers, SayWhatAnObjectIs) {
  const auto part = object_of_headers("k", {{"Content-Length", "3"},
                                            {"Content-Range", "bytes 2-4/10"},
                                            {"ETag", "\"abc\""},
                                            {"Last-Modified", "Sun, 15 Nov 2026 08:22:51 GMT"}});
  ASSERT_TRUE(part);
  EXPECT_EQ(part->size, 10U);
  EXPECT_EQ(part->etag, "abc");
  EXPECT_EQ(format_unix_millis(part->modified), "2026-11-15T08:22:51.000Z");
  EXPECT_FALSE(object_of_headers("k", {}));
}

}  // namespace
}  // namespace atl::s3
