#include "data/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "core/error.h"

namespace trireme::data {

namespace {
constexpr std::uint32_t kCodePoints = 0x110000;
constexpr std::uint32_t kPage = 256;

CharacterClass look_up_class(std::uint32_t code) {
  if ((code >= 0x09 && code <= 0x0d) || code == 0x85) return CharacterClass::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharacterClass::space;
    default:
      return CharacterClass::other;
  }
}

struct Classes {
  std::vector<std::uint8_t> pages;
  std::vector<CharacterClass> blocks;
};

Classes make_classes() {
  Classes classes;
  std::map<std::vector<CharacterClass>, std::uint8_t> known;
  for (std::uint32_t first = 0; first < kCodePoints; first += kPage) {
    std::vector<CharacterClass> block(kPage);
    for (std::uint32_t i = 0; i < kPage; ++i) block[i] = look_up_class(first + i);
    core::check(known.size() < 256 || known.contains(block), "more than 256 different pages of character classes");
    const auto [entry, added] = known.try_emplace(block, static_cast<std::uint8_t>(known.size()));
    if (added) classes.blocks.insert(classes.blocks.end(), block.begin(), block.end());
    classes.pages.push_back(entry->second);
  }
  return classes;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0u) == 0x80u; }

struct LeadByte {
  int length;                    ///< of the character it starts, 0 when it starts none
  unsigned char second_minimum;  ///< accepted second bytes
  unsigned char second_maximum;
};

// Unicode, table 3-7: well-formed UTF-8 byte sequences.
LeadByte classify_lead(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2 || byte > 0xf4) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte < 0xf0)
    return {3, static_cast<unsigned char>(byte == 0xe0 ? 0xa0 : 0x80),
            static_cast<unsigned char>(byte == 0xed ? 0x9f : 0xbf)};
  return {4, static_cast<unsigned char>(byte == 0xf0 ? 0x90 : 0x80),
          static_cast<unsigned char>(byte == 0xf4 ? 0x8f : 0xbf)};
}

// Well-formed bytes at the start, at most one character, and how many that character has in all.
struct Beginning {
  int present;
  int wanted;
};

Beginning find_beginning(std::string_view text) {
  const LeadByte lead = classify_lead(static_cast<unsigned char>(text[0]));
  if (lead.length == 0) return {0, 0};
  int present = 1;
  while (present < lead.length && static_cast<std::size_t>(present) < text.size()) {
    const auto byte = static_cast<unsigned char>(text[static_cast<std::size_t>(present)]);
    const bool accepted = present == 1 ? byte >= lead.second_minimum && byte <= lead.second_maximum
                                       : is_continuation(static_cast<char>(byte));
    if (!accepted) break;
    ++present;
  }
  return {present, lead.length};
}

// Composes a run that starts where nothing before can take part.
void append_composed(std::string& to, std::string_view run) {
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(run.data()), static_cast<utf8proc_ssize_t>(run.size()),
                   &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  core::require(bytes >= 0, core::ExitCode::machine, "normalising {} bytes: {}", run.size(), utf8proc_errmsg(bytes));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
  to.append(reinterpret_cast<const char*>(composed), static_cast<std::size_t>(bytes));
}

// Below U+0300 every character is its own composition and takes part in one only as its first.
constexpr unsigned char kFirstLeadAbove2ff = 0xcc;
}  // namespace

ClassTable class_table() {
  static const Classes classes = make_classes();
  return {classes.pages.data(), classes.blocks.data()};
}

CharacterClass class_of(std::uint32_t code) { return class_table()(code); }

int utf8_length(std::string_view text) {
  const Beginning beginning = find_beginning(text);
  return beginning.present == beginning.wanted ? beginning.wanted : 0;
}

std::uint32_t utf8_code(std::string_view text, int length) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  switch (length) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1fu) << 6 | (byte(1) & 0x3fu);
    case 3:
      return (byte(0) & 0x0fu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
    default:
      return (byte(0) & 0x07u) << 18 | (byte(1) & 0x3fu) << 12 | (byte(2) & 0x3fu) << 6 | (byte(3) & 0x3fu);
  }
}

void append_utf8(std::string& to, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { to.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0u | code >> 6);
    add(0x80u | (code & 0x3fu));
  } else if (code < 0x10000) {
    add(0xe0u | code >> 12);
    add(0x80u | (code >> 6 & 0x3fu));
    add(0x80u | (code & 0x3fu));
  } else {
    add(0xf0u | code >> 18);
    add(0x80u | (code >> 12 & 0x3fu));
    add(0x80u | (code >> 6 & 0x3fu));
    add(0x80u | (code & 0x3fu));
  }
}

int broken_length(std::string_view text) { return std::max(1, find_beginning(text).present); }

bool is_unfinished(std::string_view text) {
  if (text.empty()) return false;
  const Beginning beginning = find_beginning(text);
  return static_cast<std::size_t>(beginning.present) == text.size() && beginning.present < beginning.wanted;
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    if (static_cast<unsigned char>(text[position]) < 0x80) {
      ++position;
      continue;
    }
    const int length = utf8_length(text.substr(position, 4));
    if (length == 0) return position;
    position += static_cast<std::size_t>(length);
  }
  return std::nullopt;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  while (const auto bad = find_invalid_utf8(text)) {
    out.append(text.substr(0, *bad));
    append_utf8(out, 0xfffd);
    text.remove_prefix(*bad + static_cast<std::size_t>(broken_length(text.substr(*bad, 4))));
  }
  return out.append(text);
}

bool is_word(std::uint32_t code) {
  // Circled and squared letters are alphabetic symbols; the joiners are Join_Control.
  if ((code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
      (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189) || code == 0x200c || code == 0x200d)
    return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return class_of(code) == CharacterClass::letter;
  }
}

std::string normalize_nfc(std::string_view text) {
  std::string out;
  std::size_t copied = 0;
  std::size_t position = 0;
  std::size_t previous = 0;  // start of the character before `position`
  while (position < text.size()) {
    if (static_cast<unsigned char>(text[position]) < kFirstLeadAbove2ff) {
      const int length = utf8_length(text.substr(position, 4));
      previous = length == 0 ? position + 1 : position;
      position += static_cast<std::size_t>(std::max(length, 1));
      continue;
    }
    std::size_t end = position;
    while (end < text.size() && static_cast<unsigned char>(text[end]) >= kFirstLeadAbove2ff) {
      const int length = utf8_length(text.substr(end, 4));
      if (length == 0) break;
      end += static_cast<std::size_t>(length);
    }
    if (end == position) {
      previous = ++position;
      continue;
    }
    out.append(text.substr(copied, previous - copied));
    append_composed(out, text.substr(previous, end - previous));
    copied = previous = position = end;
  }
  return out.append(text.substr(copied));
}

std::string unicode_version() { return utf8proc_unicode_version(); }

}  // namespace trireme::data
