#include "data/tokenizer/encode_corpus.h"

#include "core/error.h"
#include "data/tokenizer/missing_byte.h"
#include "data/tokenizer/rounds.h"

namespace trireme::data {

namespace {
/// Ids of several documents, back to back.
struct Encoded {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> ends;  // of each document, empty ones left out
  std::int64_t empty = 0;
  std::int64_t special = 0;
};

[[noreturn]] void report_missing(const Record& record, const DocumentOptions& options, std::uint64_t position,
                                 const std::string& character) {
  if (record.line == 0)
    core::fail(core::ExitCode::bad_data, "{}: byte {} ({}) is not in the tokenizer's vocabulary", record.where(),
               record.offset + position, character);
  core::fail(core::ExitCode::bad_data, "{}: byte {} of \"{}\" ({}) is not in the tokenizer's vocabulary",
             record.where(), position, options.key, character);
}

class CorpusEncoder {
 public:
  CorpusEncoder(const Tokenizer& tokenizer, const EncodeOptions& options) : tokenizer_(tokenizer), options_(options) {}

  /// `report(bytes)` is called from this thread while a large document is encoded.
  std::vector<Encoded> encode(Round& round, const std::function<void(std::uint64_t)>& report) const {
    return round.large ? encode_large(round, report) : encode_groups(round);
  }

 private:
  void begin(Encoded& into) const {
    if (options_.end_of_document && options_.end_comes_first) into.ids.push_back(*options_.end_of_document);
  }
  void end(Encoded& into) const {
    if (options_.end_of_document && !options_.end_comes_first) into.ids.push_back(*options_.end_of_document);
    into.ends.push_back(into.ids.size());
  }
  void encode_part(const Record& record, std::string_view text, const Tokenizer::Part& part, Encoded& into) const {
    try {
      into.special += tokenizer_.encode_part(part, options_.special, into.ids);
    } catch (const MissingByte& error) {
      const auto start = static_cast<std::uint64_t>(part.text.data() - text.data());
      report_missing(record, options_.documents, start + error.offset(), error.character());
    }
  }
  std::vector<Encoded> encode_groups(Round& round) const;
  std::vector<Encoded> encode_large(Round& round, const std::function<void(std::uint64_t)>& report) const;

  const Tokenizer& tokenizer_;
  const EncodeOptions& options_;
};

std::vector<Encoded> CorpusEncoder::encode_groups(Round& round) const {
  std::vector<Encoded> results(round.groups.size());
  run_on_threads(options_.threads, results.size(), [&](std::size_t item, int) {
    Encoded& into = results[item];
    for (Record& record : round.groups[item]) {
      const std::string text = take_text(record, options_.documents);
      if (text.empty()) {
        ++into.empty;
        continue;
      }
      begin(into);
      for (const Tokenizer::Part& part : tokenizer_.cut(text, options_.special, text.size() + 1))
        encode_part(record, text, part, into);
      end(into);
    }
  });
  return results;
}

std::vector<Encoded> CorpusEncoder::encode_large(Round& round, const std::function<void(std::uint64_t)>& report) const {
  Record& record = round.records.front();
  const std::string text = take_text(record, options_.documents);
  Encoded whole;
  if (text.empty()) {
    whole.empty = 1;
    return {std::move(whole)};
  }
  const std::vector<Tokenizer::Part> parts = tokenizer_.cut(text, options_.special, kPartBytes);
  std::vector<Encoded> results(parts.size());
  run_on_threads(options_.threads, parts.size(), [&](std::size_t item, int thread) {
    encode_part(record, text, parts[item], results[item]);
    if (thread == 0) report(static_cast<std::uint64_t>(parts[item].text.data() - text.data()));
  });
  std::size_t total = 1;
  for (const Encoded& part : results) total += part.ids.size();
  whole.ids.reserve(total);
  begin(whole);
  for (Encoded& part : results) {
    whole.ids.insert(whole.ids.end(), part.ids.begin(), part.ids.end());
    whole.special += part.special;
    part.ids = {};
  }
  end(whole);
  return {std::move(whole)};
}
}  // namespace

EncodeSummary encode_corpus(const std::vector<std::filesystem::path>& inputs, const Tokenizer& tokenizer,
                            const EncodeOptions& options,
                            const std::function<void(std::span<const std::int32_t>)>& add_document) {
  RecordReader reader(inputs, options.documents);
  RoundReader rounds(reader, options.threads);
  const CorpusEncoder encoder(tokenizer, options);
  EncodeSummary summary;
  Round round;
  std::uint64_t done = 0;
  const auto report = [&](std::uint64_t of_round) {
    if (options.progress) options.progress(done + of_round, reader.total_bytes());
  };
  while (rounds.next(round)) {
    std::uint64_t round_bytes = 0;
    for (const Record& record : round.records) round_bytes += record.bytes.size();
    for (const Encoded& encoded : encoder.encode(round, report)) {
      std::size_t begin = 0;
      for (const std::size_t end : encoded.ends) {
        add_document(std::span(encoded.ids).subspan(begin, end - begin));
        begin = end;
      }
      summary.documents += static_cast<std::int64_t>(encoded.ends.size());
      summary.tokens += static_cast<std::int64_t>(encoded.ids.size());
      summary.empty += encoded.empty;
      summary.special += encoded.special;
    }
    done += round_bytes;
    report(0);
  }
  summary.bytes = reader.total_bytes();
  core::require(summary.documents > 0, core::ExitCode::bad_data, "no documents in {} input{}{}", inputs.size(),
                inputs.size() == 1 ? "" : "s",
                summary.empty > 0 ? fmt::format(" ({} empty ones skipped)", summary.empty) : "");
  return summary;
}

}  // namespace trireme::data
