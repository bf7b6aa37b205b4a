-- Defines checks of implicit namespaces: which they are, and what they hold in this shard.

-- Returns true if a namespace was not changed since its implicit creation (at its coordinator shard).
local function is_implicit(num)
  local f = call('HMGET', K .. 'n:' .. num, 'implicit', 'updated', 'paused')
  return f[1] and f[1] == f[2] and f[3] ~= '1'
end

-- Returns true if this shard holds no pending timer, dead letter or tombstone of a namespace. Tombstones whose retention
-- is over may still exist, so the time of the last one in the list decides.
local function is_vacant(num)
  if tonumber(call('HGET', K .. 'c:' .. num, 'pending') or '0') > 0 then return false end
  if call('EXISTS', K .. 'dead:' .. num) == 1 then return false end
  local last = call('LINDEX', K .. 'sl:' .. num, -1)
  if not last then return true end
  local f = call('HMGET', K .. 'n:' .. num, 'retention', 'over')
  local ended = time_at(last, 1)
  return ended + tonumber(f[1] or '0') <= now or ended <= tonumber(f[2] or '0')
end

-- Returns a count that grows with every timer that a namespace gets or had in this shard.
local function uses(num)
  local sum = 0
  for _, count in ipairs(call('HMGET', K .. 'c:' .. num, 'scheduled', 'fired', 'delivered', 'cancelled', 'dead', 'ended')) do
    sum = sum + tonumber(count or '0')
  end
  return sum
end
