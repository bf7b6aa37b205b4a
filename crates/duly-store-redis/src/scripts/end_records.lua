-- Returns the end records of a name at its coordinator shard.
--
-- KEYS  seq
-- ARGV  1 namespace, then numbers
-- reply now, number that has the name now or '', number and version of an unfinished end or '' and
--       '', then for each number: version of its recorded end, or ''
expect_marker()
local name = ARGV[1]
-- Returns number and version of an unfinished end of a number, or with '' of any.
local function half_done(num)
  local from = 'gone' .. NUL .. name .. NUL .. (num == '' and '' or num .. NUL)
  local found = call('ZRANGEBYLEX', K .. 'todo', '[' .. from, '(' .. from .. char(255), 'LIMIT', 0, 1)[1]
  return match(found or '', '^gone%z[^%z]*%z([^%z]*)%z(%d+)$')
end
local left_num, left_ver = half_done('')
local out = { now_text, call('HGET', K .. 'nn', name) or '', left_num or '', left_ver or '' }
for i = 2, #ARGV do
  local ver = match(call('HGET', K .. 'ends', ARGV[i]) or '', '^(%d+)%z')
  -- Earlier builds record an end only while it is unfinished.
  if not ver then ver = select(2, half_done(ARGV[i])) end
  out[#out + 1] = ver or ''
end
return out
