(function(){document.querySelectorAll('select').forEach(function(origin){
function own(name){return document.getElementById(origin.id.replace('origin',name));}
var rows=JSON.parse(own('rows').textContent),words=own('words');
function show(){words.textContent='Released as '+rows[origin.selectedIndex].join('; ')+'.';}
origin.addEventListener('input',show);show();});})();
