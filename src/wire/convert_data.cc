// Converts the bodies about keys and data (DeclareKeys to Store) to and from protobuf's classes.
// FromWire checks structure and limits: enums, counts, shapes, and that slices lie inside their key.
// Whether a key, part or round exists is checked by the machine that gets the message. Called by
// convert_body.cc, on any thread; no state.
#include <algorithm>

#include "data.pb.h"
#include "wire/convert.h"

namespace sluice::wire {
namespace {

void ToWire(const RowInit& in, pb::RowInit* out) {
  out->set_fill(EnumToWire<pb::RowInit::Fill>(in.fill));
  out->set_center(in.center);
  out->set_width(in.width);
  out->set_seed(in.seed);
}

// Converts into `out->rows`. The other fields of `out` must be set, since the check reads shape and dtype.
bool FromWire(const pb::RowInit& in, Checker& checker, KeySpec* out) {
  RowInit& init = out->rows.emplace();
  if (!checker.Enum(in.fill(), RowFill::kNormal, "how rows begin", &init.fill)) return false;
  init.center = in.center();
  init.width = in.width();
  init.seed = in.seed();
  const std::string why = InvalidReason(init, out->shape, out->dtype);
  return why.empty() || checker.Reject("key ", ToString(out->name), ": ", why);
}

void ToWire(const KeySpec& in, pb::KeySpec* out) {
  if (const auto* number = std::get_if<int64_t>(&in.name)) {
    out->set_number(*number);
  } else {
    out->set_text(std::get<std::string>(in.name));
  }
  out->set_dtype(EnumToWire<pb::DType>(in.dtype));
  out->mutable_shape()->Add(in.shape.dims().begin(), in.shape.dims().end());
  out->set_store(in.store);
  if (in.rows) ToWire(*in.rows, out->mutable_rows());
}

bool FromWire(const pb::KeySpec& in, Checker& checker, KeySpec* out) {
  switch (in.name_case()) {
    case pb::KeySpec::kNumber:
      out->name = in.number();
      break;
    case pb::KeySpec::kText:
      if (!checker.Text(in.text(), "key name", &out->name.emplace<std::string>())) return false;
      break;
    case pb::KeySpec::NAME_NOT_SET:
      return checker.Reject("a key has no name");
  }
  if (!checker.StoreNumber(in.store(), &out->store)) return false;
  if (!checker.Enum(in.dtype(), DType::kUInt8, "dtype", &out->dtype)) return false;
  // The count is checked before the copy: the list may be as long as the envelope.
  if (!checker.Count(in.shape_size(), Shape::kMaxAxes, "axes")) return false;
  std::vector<int64_t> dims(in.shape().begin(), in.shape().end());
  if (std::string why = Shape::InvalidReason(dims); !why.empty()) {
    return checker.Reject("key ", ToString(out->name), ": ", why);
  }
  out->shape = Shape(dims);
  if (out->shape.size() > INT64_MAX / static_cast<int64_t>(SizeOf(out->dtype))) {
    return checker.Reject("key ", ToString(out->name), ": ", out->shape.ToString(), " of ", Name(out->dtype),
                          " has more than 2^63-1 bytes");
  }
  return !in.has_rows() || FromWire(in.rows(), checker, out);
}

void ToWire(const KeyEntry& in, pb::KeyEntry* out) {
  out->set_id(in.id);
  ToWire(in.spec, out->mutable_spec());
  out->set_mode(EnumToWire<pb::SyncMode>(in.mode));
  for (const Slice& slice : in.slices) {
    pb::Slice* s = out->add_slices();
    s->set_shard(slice.shard);
    s->set_offset(slice.offset);
    s->set_length(slice.length);
  }
  out->set_part_elements(in.part_elements);
}

bool FromWire(const pb::KeyEntry& in, Checker& checker, KeyEntry* out) {
  out->id = in.id();
  out->part_elements = in.part_elements();
  if (out->part_elements < 0) return checker.Reject("parts of ", out->part_elements, " elements");
  if (!FromWire(in.spec(), checker, &out->spec) ||
      !checker.Enum(in.mode(), SyncMode::kAsync, "mode", &out->mode) ||
      !checker.Count(in.slices_size(), checker.limits().max_parts, "slices")) {
    return false;
  }
  out->slices.reserve(in.slices_size());
  for (const pb::Slice& s : in.slices()) {
    // Checked in this order, the subtraction cannot overflow.
    if (s.offset() < 0 || s.length() < 0 || s.offset() > out->spec.shape.size() ||
        s.length() > out->spec.shape.size() - s.offset()) {
      return checker.Reject("key ", ToString(out->spec), ": slice at ", s.offset(), " of ", s.length(),
                            " elements lies outside ", out->spec.shape.ToString());
    }
    out->slices.push_back({s.shard(), s.offset(), s.length()});
  }
  return true;
}

using EntryField = google::protobuf::RepeatedPtrField<pb::KeyEntry>;

void EntriesToWire(const std::vector<KeyEntry>& in, EntryField* out) {
  out->Reserve(static_cast<int>(in.size()));
  for (const KeyEntry& entry : in) ToWire(entry, out->Add());
}

bool EntriesFromWire(const EntryField& in, Checker& checker, std::vector<KeyEntry>* out) {
  if (!checker.Count(in.size(), checker.limits().max_keys, "keys")) return false;
  out->resize(in.size());
  for (int i = 0; i < in.size(); ++i) {
    if (!FromWire(in[i], checker, &(*out)[i])) return false;
  }
  return true;
}

// Writes a column, with one number for every part; it stays empty if all are 0.
template <typename Part, typename T>
void ColumnToWire(const PartList<Part>& in, google::protobuf::RepeatedField<T>* out, auto&& value_of) {
  if (std::ranges::all_of(in, [&](const Part& part) { return value_of(part) == T{}; })) return;
  out->Reserve(static_cast<int>(in.size()));
  for (const Part& part : in) out->AddAlreadyReserved(value_of(part));
}

template <typename Part>
void PartsToWire(const PartList<Part>& in, pb::Parts* out) {
  out->mutable_key()->Reserve(static_cast<int>(in.size()));
  for (const Part& part : in) out->mutable_key()->AddAlreadyReserved(part.ref.key);
  ColumnToWire(in, out->mutable_part(), [](const Part& part) { return part.ref.part; });
  ColumnToWire(in, out->mutable_slot(), [](const Part& part) { return SlotOf(part); });
  ColumnToWire(in, out->mutable_version(), [](const Part& part) { return VersionOf(part); });
}

bool IsColumn(const auto& column, int parts, const char* what, Checker& checker) {
  return column.empty() || column.size() == parts ||
         checker.Reject(column.size(), " ", what, " for ", parts, " parts");
}

// Calls `make(ref, slot, version, i)` for every part i, and appends what it returns.
template <typename Part>
bool PartsFromWire(const pb::Parts& in, Checker& checker, PartList<Part>* out, auto&& make) {
  const int size = in.key_size();
  if (!checker.Count(static_cast<size_t>(size), checker.limits().max_parts, "parts") ||
      !IsColumn(in.part(), size, "part numbers", checker) || !IsColumn(in.slot(), size, "slots", checker) ||
      !IsColumn(in.version(), size, "versions", checker)) {
    return false;
  }
  out->reserve(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) {
    out->push_back(make(PartRef{in.key(i), in.part().empty() ? 0 : in.part(i)},
                        in.slot().empty() ? 0 : in.slot(i), in.version().empty() ? 0 : in.version(i), i));
  }
  return true;
}
template <typename Part>
bool PartsFromWire(const pb::Parts& in, Checker& checker, PartList<Part>* out) {
  return PartsFromWire(in, checker, out, [](PartRef ref, uint32_t slot, uint64_t version, int) {
    return Part{ref, slot, version};
  });
}

}  // namespace

void ToWire(const DeclareKeys& in, pb::DeclareKeys* out) {
  out->set_mode(EnumToWire<pb::SyncMode>(in.mode));
  out->mutable_keys()->Reserve(static_cast<int>(in.keys.size()));
  for (const KeySpec& key : in.keys) ToWire(key, out->add_keys());
  out->set_call(in.part.call);
  out->set_first(in.part.first);
  out->set_total(in.part.total);
}
bool FromWire(const pb::DeclareKeys& in, Checker& checker, DeclareKeys* out) {
  if (!checker.Enum(in.mode(), SyncMode::kAsync, "mode", &out->mode) ||
      !checker.Count(in.keys_size(), checker.limits().max_keys, "keys")) {
    return false;
  }
  out->part = {in.call(), in.first(), in.total()};
  out->keys.resize(in.keys_size());
  for (int i = 0; i < in.keys_size(); ++i) {
    if (!FromWire(in.keys(i), checker, &out->keys[i])) return false;
  }
  return true;
}

void ToWire(const KeyTable& in, pb::KeyTable* out) {
  EntriesToWire(in.entries, out->mutable_entries());
}
bool FromWire(const pb::KeyTable& in, Checker& checker, KeyTable* out) {
  return EntriesFromWire(in.entries(), checker, &out->entries);
}
void ToWire(const AnnounceKeys& in, pb::AnnounceKeys* out) {
  EntriesToWire(in.entries, out->mutable_entries());
}
bool FromWire(const pb::AnnounceKeys& in, Checker& checker, AnnounceKeys* out) {
  return EntriesFromWire(in.entries(), checker, &out->entries);
}

void ToWire(const Push& in, pb::Push* out) {
  out->set_samples(in.samples);
  out->set_divisor(in.divisor);
  out->set_compression(EnumToWire<pb::Compression>(in.compression));
  out->set_values(EnumToWire<pb::Compression>(in.values));
  out->set_exponent(in.exponent);
  PartsToWire(in.parts, out->mutable_parts());
  ColumnToWire(in.parts, out->mutable_want_value(), [](const PushPart& part) { return part.want_value; });
}
bool FromWire(const pb::Push& in, Checker& checker, Push* out) {
  out->samples = in.samples();
  out->divisor = in.divisor();
  if (!checker.Finite(out->divisor, "the divisor") ||
      !checker.Enum(in.compression(), Compression::kTopK, "the compression", &out->compression) ||
      !checker.Enum(in.values(), Compression::kTopK, "the compression of values", &out->values)) {
    return false;
  }
  out->exponent = in.exponent();
  if (out->divisor == 0) return checker.Reject("the divisor is 0");
  if (!in.parts().slot().empty()) return checker.Reject("a push names slots");
  if (!IsColumn(in.want_value(), in.parts().key_size(), "wanted values", checker)) return false;
  return PartsFromWire(in.parts(), checker, &out->parts, [&](PartRef ref, uint32_t, uint64_t round, int i) {
    return PushPart{ref, round, !in.want_value().empty() && in.want_value(i)};
  });
}

void ToWire(const Pull& in, pb::Pull* out) {
  out->set_want(EnumToWire<pb::Pull::Want>(in.want));
  out->set_values(EnumToWire<pb::Compression>(in.values));
  PartsToWire(in.parts, out->mutable_parts());
}
bool FromWire(const pb::Pull& in, Checker& checker, Pull* out) {
  return checker.Enum(in.want(), Pull::Want::kSet, "what is wanted", &out->want) &&
         checker.Enum(in.values(), Compression::kTopK, "the compression of values", &out->values) &&
         PartsFromWire(in.parts(), checker, &out->parts);
}

void ToWire(const PullRows& in, pb::PullRows* out) {
  PartsToWire(in.parts, out->mutable_parts());
}
bool FromWire(const pb::PullRows& in, Checker& checker, PullRows* out) {
  return PartsFromWire(in.parts(), checker, &out->parts);
}

void ToWire(const GetRowIds& in, pb::GetRowIds* out) {
  out->set_key(in.ref.key);
  out->set_part(in.ref.part);
  out->set_first(in.first);
}
bool FromWire(const pb::GetRowIds& in, Checker&, GetRowIds* out) {
  *out = {{in.key(), in.part()}, in.first()};
  return true;
}

void ToWire(const RowIds& in, pb::RowIds* out) {
  out->set_total(in.total);
  out->mutable_ids()->Add(in.ids.begin(), in.ids.end());
}
bool FromWire(const pb::RowIds& in, Checker& checker, RowIds* out) {
  out->total = in.total();
  if (!checker.Count(in.ids_size(), checker.limits().max_parts, "row ids")) return false;
  out->ids.assign(in.ids().begin(), in.ids().end());
  return true;
}

void ToWire(const Values& in, pb::Values* out) {
  out->set_content(in.has_data ? pb::Values::CONTENT_VALUES : pb::Values::CONTENT_VERSIONS);
  out->set_compression(EnumToWire<pb::Compression>(in.compression));
  PartsToWire(in.parts, out->mutable_parts());
}
bool FromWire(const pb::Values& in, Checker& checker, Values* out) {
  if (in.content() != pb::Values::CONTENT_VALUES && in.content() != pb::Values::CONTENT_VERSIONS) {
    return checker.Reject("the content of values is ", static_cast<int>(in.content()));
  }
  out->has_data = in.content() == pb::Values::CONTENT_VALUES;
  return checker.Enum(in.compression(), Compression::kTopK, "the compression", &out->compression) &&
         PartsFromWire(in.parts(), checker, &out->parts);
}

void ToWire(const Store& in, pb::Store* out) {
  out->set_purpose(EnumToWire<pb::Store::Purpose>(in.purpose));
  PartsToWire(in.parts, out->mutable_parts());
}
bool FromWire(const pb::Store& in, Checker& checker, Store* out) {
  return checker.Enum(in.purpose(), Store::Purpose::kWeight, "purpose", &out->purpose) &&
         PartsFromWire(in.parts(), checker, &out->parts);
}

}  // namespace sluice::wire
