(function(){document.querySelectorAll('input[type=range]').forEach(function(slider){
function own(name){return document.getElementById(slider.id.replace('slider',name));}
var data=JSON.parse(own('data').textContent),said=own('said'),point=own('point');
function number(name){return parseFloat(point.dataset[name]);}
function show(){var one=data[slider.value];
point.setAttribute('cx',number('left')+number('wide')*one[0]/number('right'));
point.setAttribute('cy',number('zero')-number('tall')*one[1]/number('top'));
said.textContent=one[2];
slider.setAttribute('aria-valuetext',said.textContent);}
slider.addEventListener('input',show);show();});})();
