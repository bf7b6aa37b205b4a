-- Takes back a claim whose reply was lost (P3): the claim is not executed any more, and the firings that it granted are
-- returned, so that they can be handed back without counting an attempt.
--
-- KEYS  seq
-- ARGV  1 nonce of the claim
-- reply now, then for each: number of the namespace, id
expect_marker()
local out = { digits(now) }
for _, member in ipairs(call('LRANGE', K .. 'u:' .. ARGV[1], 0, -1)) do
  local num, id = string.match(member, '^([^%z]*)%z(.*)$')
  out[#out + 1] = num
  out[#out + 1] = id
end
write('SET', K .. 'void:' .. ARGV[1], '', 'PX', 60000)
flush()
return out
