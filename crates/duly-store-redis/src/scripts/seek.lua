-- Returns the rank of the first entry of a sorted set after (score, member), in the order of the set. It searches by
-- rank, not by offset: a million equal scores cost no more than two.
local function seek(set, score, member)
  local at = call('ZSCORE', set, member)
  if at and tonumber(at) == score then return call('ZRANK', set, member) + 1 end
  local low = call('ZCOUNT', set, '-inf', '(' .. digits(score))
  local high = call('ZCOUNT', set, '-inf', digits(score))
  while low < high do
    local middle = math.floor((low + high) / 2)
    local found = call('ZRANGE', set, middle, middle)[1]
    if before(member, found) then high = middle else low = middle + 1 end
  end
  return low
end
