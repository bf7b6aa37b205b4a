-- Returns which namespaces hold something in this shard.
--
-- KEYS  seq
-- ARGV  numbers
-- reply now, then for each number: '1' if this shard holds nothing of it, else '0'; a count that grows with
--       every timer
expect_marker()
local out = { now_text }
for _, num in ipairs(ARGV) do
  out[#out + 1] = is_vacant(num) and '1' or '0'
  out[#out + 1] = digits(uses(num))
end
return out
