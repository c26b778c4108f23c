// The input is a tokenizer.json. It is refused with the code for bad data, or it is a tokenizer that works.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "data/tokenizer/tokenizer.h"

using trireme::core::Error;
using trireme::core::ExitCode;
using trireme::data::SpecialText;
using trireme::data::Tokenizer;

namespace {

void demand(bool condition) {
  if (!condition) std::abort();
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  for (const SpecialText special : {SpecialText::parse, SpecialText::text}) {
    try {
      const std::vector<std::int32_t> ids = tokenizer.encode(text, special);
      for (const std::int32_t id : ids) demand(id >= 0 && id < tokenizer.vocab_size());
      tokenizer.decode(ids);
    } catch (const Error& error) {
      demand(error.code() == ExitCode::bad_data);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = Tokenizer::parse(json, "input");
    use(tokenizer, "The theory:  it's 1234567\r\n\n caf\xc3\xa9 \xff<|endoftext|> \xe2\x80\xa8x");
    use(tokenizer, json.substr(size - size / 8));
    demand(Tokenizer::parse(tokenizer.json(), "again").vocab_size() == tokenizer.vocab_size());
  } catch (const Error& error) {
    demand(error.code() == ExitCode::bad_data);
    demand(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
