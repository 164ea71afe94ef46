// SPDX-License-Identifier: Apache-2.0
//
// Tests for the markers of each format, the most specific first.
#include "files/other_formats.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ashlar {
namespace {

constexpr std::string_view kSnapshotAdvice =
    "pass a snapshot (torch.cuda.memory._dump_snapshot, after _record_memory_history)";

struct Marker {
  std::string_view bytes;
  std::string_view name;
};

constexpr std::array<Marker, 9> kMarkers = {{
    {"GGUF", "a GGUF file with model weights"},
    {"\x89HDF\r\n\x1a\n", "an HDF5 file"},
    {"\x93NUMPY", "a NumPy array"},
    {"\x7f"
     "ELF",
     "a program or library"},
    {"\x89PNG\r\n\x1a\n", "a picture"},
    {"SQLite format 3", "a database, such as a profile of Nsight Systems"},
    {"%PDF-", "a PDF document"},
    // The magic number of torch.save before PyTorch 1.6, as a pickle.
    {std::string_view("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", 15),
     "a checkpoint of torch.save"},
    {"BZh", "compressed with bzip2 (expected xz, zstd, gzip or none)"},
}};

bool has_text(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view without_leading_space(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return start == std::string_view::npos ? std::string_view() : text.substr(start);
}

std::string not_a_snapshot_text(std::string_view name) {
  return "is " + std::string(name) + ", not a snapshot: " + std::string(kSnapshotAdvice);
}

// A safetensors file starts with the size of a JSON header, in 8 bytes, and the header.
bool is_safetensors(std::string_view bytes) {
  return bytes.size() > 10 && bytes[8] == '{' && bytes[9] == '"' && bytes[6] == 0 && bytes[7] == 0;
}

std::string describe_json(std::string_view bytes) {
  const bool is_snapshot = has_text(bytes, "\"segments\"") || has_text(bytes, "\"device_traces\"");
  if (is_snapshot) return {};
  for (const std::string_view key : {"\"traceEvents\"", "\"schemaVersion\"", "\"displayTimeUnit\"",
                                     "\"deviceProperties\"", "\"ph\""}) {
    if (has_text(bytes, key)) return not_a_snapshot_text("a profiler trace (Chrome trace format)");
  }
  std::string compact;
  std::copy_if(bytes.begin(), bytes.begin() + std::min<ptrdiff_t>(std::ssize(bytes), 64),
               std::back_inserter(compact), [](char c) { return c != ' ' && c != '\n'; });
  if (compact.starts_with("[[")) return not_a_snapshot_text("a memory timeline of torch.profiler");
  return {};
}

bool is_text(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 || c == '\n' || c == '\r' || c == '\t';
  });
}

// Decodes base64 up to the closing quotation mark.
class Base64Source final : public ByteSource {
 public:
  explicit Base64Source(std::unique_ptr<ByteSource> text) : text_(std::move(text)) {}

  Result<size_t> read(std::span<char> into) override {
    size_t count = 0;
    while (count < into.size()) {
      if (bit_count_ >= 8) {
        bit_count_ -= 8;
        into[count++] = static_cast<char>(bits_ >> bit_count_ & 0xff);
        continue;
      }
      if (has_ended_) break;
      if (unread_.empty()) {
        const Result<size_t> got = text_->read(buffer_);
        if (!got.ok()) return got.status();
        if (*got == 0) return Status::format("the embedded snapshot is truncated");
        unread_ = std::string_view(buffer_.data(), *got);
      }
      if (Status added = add(unread_.front()); !added.ok()) return added;
      unread_.remove_prefix(1);
    }
    return count;
  }

 private:
  Status add(char c) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (c == '"') {
      has_ended_ = true;
    } else if (const size_t digit = kDigits.find(c); digit != std::string_view::npos) {
      bits_ = (bits_ << 6 | static_cast<uint32_t>(digit)) & 0xffff;
      bit_count_ += 6;
    } else if (c != '=') {
      return Status::format("the embedded snapshot is damaged (expected base64)");
    }
    return {};
  }

  std::unique_ptr<ByteSource> text_;
  std::array<char, 16384> buffer_{};
  std::string_view unread_;  // the part of buffer_ that has not been decoded
  uint32_t bits_ = 0;        // the lowest bit_count_ bits are decoded but not yet returned
  unsigned bit_count_ = 0;
  bool has_ended_ = false;
};

}  // namespace

std::string describe_other_format(std::string_view first_bytes) {
  if (first_bytes.starts_with("version https://git-lfs.github.com/spec/")) {
    return "is a Git LFS pointer, not the file itself: run `git lfs pull` to download the file";
  }
  if (first_bytes.starts_with("PK\x03\x04")) {
    const std::string_view names = first_bytes.substr(0, 512);
    const bool is_checkpoint = has_text(names, "data.pkl") || has_text(names, ".data/");
    return is_checkpoint ? not_a_snapshot_text("a checkpoint of torch.save")
                         : "is a ZIP archive: extract it, and pass the snapshot in it";
  }
  for (const Marker& marker : kMarkers) {
    if (first_bytes.starts_with(marker.bytes)) return not_a_snapshot_text(marker.name);
  }
  if (first_bytes.size() > 262 && first_bytes.substr(257, 5) == "ustar") {
    return "is a tar archive: extract it, and pass the snapshot in it";
  }
  if (is_safetensors(first_bytes))
    return not_a_snapshot_text("a safetensors file with model weights");
  if (first_bytes.front() == '\x80') return {};
  const std::string_view text = without_leading_space(first_bytes);
  if (text.starts_with('{') || text.starts_with('[')) return describe_json(text);
  if (is_html(first_bytes)) return not_a_snapshot_text("an HTML page without a snapshot in it");
  if (is_text(first_bytes)) {
    return "is text, neither a pickle nor JSON: " + std::string(kSnapshotAdvice);
  }
  return {};
}

bool is_html(std::string_view first_bytes) {
  std::string start(without_leading_space(first_bytes).substr(0, 16));
  for (char& c : start) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return start.starts_with("<!doctype html") || start.starts_with("<html");
}

Result<std::unique_ptr<ByteSource>> open_embedded_snapshot(std::unique_ptr<PeekableSource> page) {
  constexpr size_t kSearchedBytes = size_t{64} << 10;
  constexpr std::string_view kKey = "\"base64\": \"";
  const Result<std::string_view> found = page->peek(kSearchedBytes);
  if (!found.ok()) return found.status();
  const size_t key = found->find(kKey);
  if (key == std::string_view::npos) return std::unique_ptr<ByteSource>();
  std::string skipped(key + kKey.size(), '\0');
  for (size_t done = 0; done < skipped.size();) {
    const Result<size_t> got = page->read(std::span(skipped).subspan(done));
    if (!got.ok()) return got.status();
    done += *got;
  }
  return std::unique_ptr<ByteSource>(std::make_unique<Base64Source>(std::move(page)));
}

}  // namespace ashlar
