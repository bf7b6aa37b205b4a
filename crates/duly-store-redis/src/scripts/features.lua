-- Adds features to those that a build must know of the data; see features.rs.
local function add_features(key, names)
  local f = call('HMGET', key, 'format', 'features')
  -- A number of a later build stands: this one cannot say what it means.
  if f[1] and not match(f[1], '^[4567]$') then return end
  local before = f[1] == '6' and 'keys' or f[1] == '7' and f[2] or ''
  local all, seen = {}, {}
  for name in string.gmatch(before .. ',' .. names, '[^,]+') do
    if not seen[name] then all[#all + 1] = name end
    seen[name] = true
  end
  local set = table.concat(all, ',')
  if set == '' then write('HSET', key, 'format', '5')
  elseif set == 'keys' then write('HSET', key, 'format', '6')
  else write('HSET', key, 'format', '7', 'features', set) end
end
