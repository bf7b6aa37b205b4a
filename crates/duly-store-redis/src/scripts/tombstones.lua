-- Tombstones of ended timers: s:<num> by id; sl:<num>, a list of (ended at, id) in order of ending; and while
-- somebody lists them sd:<num>:F and :C in order of due times (index.lua). An entry of sl whose time is
-- not that of the tombstone is of one that was replaced. All go with the last of them by TTL, should
-- nothing else come.

-- Takes a tombstone away.
local function drop_tombstone(num, id)
  gather('HDEL', K .. 's:' .. num, id)
  if not is_indexed(num, 's') then return end
  gather('ZREM', K .. 'sd:' .. num .. ':F', id)
  gather('ZREM', K .. 'sd:' .. num .. ':C', id)
end

-- The number of the next dead letter: the order of dying is theirs, not the clock's.
local function next_ended(num)
  return tonumber(call('HGET', K .. 'c:' .. num, 'ended') or '0') + 1
end

-- Whether a tombstone is over.
local function tombstone_is_over(ctl, tombstone)
  return tombstone == '' or time_at(tombstone, 2) + ctl.retention <= now
end

-- Drops tombstones that are over, and as many as there are too many, those that ended first before the
-- others; looks at so many entries. `kept` goes anyway, and `more` come. Answers how many went.
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

-- The due time of a tombstone: that of its core, which stands behind the lease.
local function due_of_tombstone(tombstone)
  return time_at(tombstone, 8 + byte(tombstone, 8) + 16)
end

-- Keeps tombstones of one kind for the retention. Whoever had an id before is gone from `sd`.
local function keep_tombstones(ctl, kind, ids, tombstones)
  local num = ctl.num
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
