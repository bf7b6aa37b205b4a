-- Defines the tombstones of ended timers.
--
-- 1. s:<num> holds them by id. sl:<num> is a list of (ended at, id) in order of ending.
-- 2. While a caller lists them, sd:<num>:F and :C hold them in order of due times (index.lua).
-- 3. An entry of sl whose time is not that of the tombstone belongs to a tombstone that was replaced.
-- 4. All keys expire with the last tombstone (TTL).

-- Drops a tombstone.
local function drop_tombstone(num, id)
  gather('HDEL', K .. 's:' .. num, id)
  if not is_indexed(num, 's') then return end
  gather('ZREM', K .. 'sd:' .. num .. ':F', id)
  gather('ZREM', K .. 'sd:' .. num .. ':C', id)
end

-- Returns the number of the next dead letter. Dead letters are ordered by it, not by the clock.
local function next_ended(num)
  return tonumber(call('HGET', K .. 'c:' .. num, 'ended') or '0') + 1
end

-- Returns true if the retention of a tombstone is over.
local function tombstone_is_over(ctl, tombstone)
  if tombstone == '' then return true end
  local ended = time_at(tombstone, 2)
  return ended + ctl.retention <= now or ended <= ctl.over
end

-- Drops tombstones whose retention is over, and those above the limit, the oldest first. It reads at most `most` entries.
-- `kept` is replaced anyway, and `more` are about to be added. Returns the number of entries that it removed.
local function trim_tombstones(ctl, more, kept, most)
  local tombstones, list = K .. 's:' .. ctl.num, K .. 'sl:' .. ctl.num
  local over = call('HLEN', tombstones) + more - ctl.a_retained
  if kept and call('HEXISTS', tombstones, kept) == 1 then over = over - 1 end
  local looked = 0
  while looked < most do
    local entries = call('LRANGE', list, digits(looked), digits(looked + math.min(math.max(over, 1), most - looked) - 1))
    if not entries[1] then break end
    for _, entry in ipairs(entries) do
      local id = sub(entry, 7)
      local tombstone = call('HGET', tombstones, id)
      if tombstone and id ~= kept and sub(tombstone, 2, 7) == sub(entry, 1, 6) then
        if over <= 0 and not tombstone_is_over(ctl, tombstone) then
          most = 0
          break
        end
        over = over - 1
        drop_tombstone(ctl.num, id)
      end
      looked = looked + 1
    end
  end
  if looked > 0 then write('LTRIM', list, digits(looked), '-1') end
  return looked
end

-- Returns the due time of a tombstone: that of its core, which follows the lease.
local function due_of_tombstone(tombstone)
  return time_at(tombstone, 8 + byte(tombstone, 8) + 16)
end

-- Keeps tombstones of one kind for the retention. Older tombstones of these ids were removed from `sd` before.
local function keep_tombstones(ctl, kind, ids, tombstones)
  local num = ctl.num
  -- The clock may have been ahead when the retention was raised.
  local ended = time_at(tombstones[1], 2)
  if ended <= ctl.over then
    ctl.over = ended - 1
    write('HSET', K .. 'n:' .. num, 'over', digits(ctl.over))
  end
  local set, list = { 'HSET', K .. 's:' .. num }, { 'RPUSH', K .. 'sl:' .. num }
  for i, id in ipairs(ids) do
    set[i * 2 + 1], set[i * 2 + 2] = id, tombstones[i]
    list[i + 2] = sub(tombstones[i], 2, 7) .. id
  end
  for _, command in ipairs({ set, list }) do
    W[#W + 1] = command
    write('PEXPIREAT', command[2], digits(now + ctl.retention))
  end
  if is_indexed(num, 's') then
    local dues = K .. 'sd:' .. num .. ':' .. kind
    for i, id in ipairs(ids) do gather('ZADD', dues, digits(due_of_tombstone(tombstones[i])), id) end
    write('PEXPIRE', dues, '120000')
  end
end
local function keep_tombstone(ctl, id, kind, tombstone)
  if ctl.retention <= 0 or ctl.a_retained <= 0 then return end
  trim_tombstones(ctl, 1, id, 16)
  keep_tombstones(ctl, kind, { id }, { tombstone })
end
